"""Compute lower bounds of epsilon from answers alone.

Answers to the queries of a release are drawn many times on two neighbouring tables, by the noise
code of real releases (the noise stage). An event that distinguishes the tables proves a lower bound
of epsilon, and a claimed epsilon below this bound is false. No module here uses the noise
distribution, so any error in a scale, a draw, a rounding or a privacy cost is found if it is large
enough.

    tiled_tables       exact tables of many equal cells: many answers in one call
    drawn_answers      noisy answers about tables: vectors, choices and selected keys
    cell_sampling      the selection of the cells of two tables for which answers are drawn
    noise_questions    a question: some numbers of an answer, and the epsilon claimed for them
    table_questions    the questions about noisy tables, and answers drawn call by call
    answer_statistics  statistics of answers that distinguish the tables
    tried_events       events defined by a statistic, and the selection of the best event
    proven_bounds      bounds: some draws select events, all other draws count them
    release_bounds     the bounds of a release; questions about records and parties
"""

from dprelease.auditing.black_box.release_bounds import lower_bounds

__all__ = ["lower_bounds"]
