"""Run whole releases on synthetic people: on two tables with the same bits, and with canaries."""
