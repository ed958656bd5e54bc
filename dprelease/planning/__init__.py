"""From declarations to a plan: what noise every column gets, and what that costs.

Noise requests (`noise_requests`) become calibrated vectors (`calibration`), a mechanism and a
shape are chosen for each (`mechanism_choice`), and the budget is divided (`budget_shares`). The
plan (`plan`) is whole before any row is read: this stage imports no engine, no exact result and no
source of bits.
"""
