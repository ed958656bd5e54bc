"""Operations on published releases: area sums, estimates, exports, reports and signatures."""
