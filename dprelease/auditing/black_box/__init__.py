"""Lower bounds of epsilon, from answers alone.

Answers to the questions of a release are drawn many times on two neighbouring tables, by the noise
stage that releases are drawn by. What tells the tables apart best shows that no smaller epsilon can
hold: a claimed epsilon below such a bound is false. Nothing here knows a law: whatever is wrong
with a scale, a draw, a rounding or a price would show, if it is large enough to be seen.

    tiled_tables     exact tables of many equal cells: many answers in one call
    drawn_answers    answers about tables, of vectors, choices and keys
    one_by_one       answers drawn call by call, as releases are
    asked_cells      which cells of a pair of tables are drawn
    asked_of_noise   a question: numbers of an answer, and what is claimed of them
    asked_of_tables, asked_of_people   the questions of a release
    trained_scores, told_apart         numbers that tables are told apart by
    tried_events     events over such a number, and which is the best
    clopper_pearson  limits of a chance, on the safe side
    proven_bounds    some of the draws to choose by, all others to count
"""

from dprelease.auditing.black_box.release_bounds import lower_bounds

__all__ = ["lower_bounds"]
