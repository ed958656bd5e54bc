"""From declarations to a plan: the noise of every column, and its privacy cost.

Noise requests (`noise_requests`) become calibrated vectors (`calibration`), each gets a mechanism
and a shape (`mechanism_choice`), and the budget is divided (`budget_shares`). The plan (`plan`) is
complete before any row is read: this stage imports no engine, no exact result and no source of
random bits.
"""
