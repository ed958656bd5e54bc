"""Compute lower bounds of epsilon from noisy answers alone.

Answers to the queries of a release are drawn many times about two neighbouring tables, with the
noise code of real releases (the noise stage). An event that distinguishes the tables proves a lower
bound of epsilon, and a claimed epsilon below this bound is false. No module of this package uses
the noise distribution. So an error in a scale, in a noise draw, in a rounding or in a privacy cost
is found if it is large enough.

    tiled_tables       exact tables of many equal cells, for many answers in one call
    drawn_answers      sources of noisy answers about tables: vectors, choices and selected keys
    cell_sampling      the selection of the cells of two tables for which answers are drawn
    noise_questions    questions, which are some numbers of an answer with their claimed epsilon
    table_questions    the questions about noisy tables, and answers that are drawn call by call
    answer_statistics  the statistics of answers that distinguish the tables
    tried_events       the events that a statistic defines, and the selection of the best event
    proven_bounds      the bounds: some answers select events, and all other answers test them
    release_bounds     the bounds of a release, and the questions about records and parties
"""

from dprelease.auditing.black_box.release_bounds import lower_bounds

__all__ = ["lower_bounds"]
