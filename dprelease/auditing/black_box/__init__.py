"""Compute lower bounds of epsilon from answers alone.

Answers to the questions of a release are drawn many times on two neighbouring tables, by the
noise
stage of real releases. The event that distinguishes the tables best shows that no smaller epsilon
can hold: a claimed epsilon below such a bound is false. Nothing here uses the noise distribution,
so any error in a scale, a draw, a rounding or a privacy cost shows, if it is large enough.

    tiled_tables       exact tables of many equal cells: many answers in one call
    drawn_answers      answers about tables, of vectors, choices and keys
    cell_sampling      which cells of a pair of tables are drawn
    noise_questions    a question: numbers of an answer, and the epsilon claimed for them
    table_questions    the questions about noised tables, and answers drawn call by call
    answer_statistics  numbers that distinguish the tables
    tried_events       events over such a number, and the choice of the best
    proven_bounds      bounds: some draws to choose events, all others to count
    release_bounds     the bounds of a release; questions about records and parties
"""

from dprelease.auditing.black_box.release_bounds import lower_bounds

__all__ = ["lower_bounds"]
