"""The functions over noised values: those of DuckDB whose result depends on their arguments alone.

Functions of files, settings, the catalog, the clock and random numbers are left out, and so are
functions whose result can be arbitrarily long, such as `repeat`. A test compares the lists with the
functions of DuckDB.
"""

from __future__ import annotations

import re

from sqlglot import exp


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


SCALARS = {
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bit_count cbrt ceil ceiling cos cosh cot
        degrees even exp factorial fdiv floor fmod format_bytes gamma gcd greatest_common_divisor
        isfinite isinf isnan lcm least_common_multiple lgamma ln log log10 log2 mod pi pow power
        radians round round_even roundbankers sign signbit sin sinh sqrt tan tanh to_base to_hex
        trunc xor""",
    "texts": """
        ascii bar chr concat concat_ws contains damerau_levenshtein ends_with hamming hex instr
        jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme length
        length_grapheme levenshtein lower ltrim md5 nfc_normalize ord position prefix
        regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches
        regexp_replace regexp_split_to_array replace reverse right right_grapheme rtrim sha256 split
        split_part starts_with str_split str_split_regex string_split string_split_regex
        string_to_array strip_accents strlen strpos substr substring substring_grapheme suffix
        translate trim ucase unicode upper url_decode url_encode""",
    "texts with constant lengths": "format lpad printf rpad",
    "dates and times": """
        century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc
        day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns
        epoch_us era extract hour isodow isoyear julian last_day make_date make_time make_timestamp
        microsecond millennium millisecond minute month monthname quarter second strftime strptime
        time_bucket to_days to_hours to_minutes to_months to_quarters to_seconds to_weeks to_years
        try_strptime week weekday weekofyear year yearweek""",
    "lists, maps and structs": """
        array_append array_apply array_cat array_concat array_contains
        array_distinct array_extract array_filter array_has array_has_all array_has_any
        array_indexof array_intersect array_length array_position array_prepend array_reverse
        array_reverse_sort array_select array_slice array_sort array_to_string array_transform
        array_unique array_where array_zip cardinality element_at flatten len
        list_any_value list_append list_apply list_avg list_cat list_concat
        list_contains list_count list_distance list_distinct list_dot_product list_element
        list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all
        list_has_any list_histogram list_indexof list_inner_product list_intersect list_kurtosis
        list_last list_mad list_max list_median list_min list_mode list_position list_prepend
        list_product list_reverse list_reverse_sort list_select list_sem list_skewness list_slice
        list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform
        list_unique list_value list_var_pop list_var_samp list_where list_zip map map_concat
        map_contains map_entries map_extract map_extract_value map_from_entries map_keys map_values
        row struct_concat struct_extract struct_insert struct_keys struct_pack struct_values""",
    "values of any type": "coalesce greatest hash if ifnull least nullif typeof",
}
"""The names of functions of single values, by what they are about."""

AGGREGATES = words("""
    any_value approx_count_distinct approx_quantile arbitrary arg_max arg_max_null arg_min
    arg_min_null argmax argmin array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count
    count_if covar_pop covar_samp entropy first geomean geometric_mean group_concat grouping
    histogram kurtosis kurtosis_pop last list listagg mad max max_by median min min_by mode
    percentile_cont percentile_disc product quantile quantile_cont quantile_disc regr_avgx
    regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem
    skewness stddev stddev_pop stddev_samp string_agg sum var_pop var_samp variance wavg
    weighted_avg
""")
WINDOW_FUNCTIONS = words("""
    cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank
    row_number
""")
SCALAR_NAMES = words(" ".join(SCALARS.values()))
NAMES = SCALAR_NAMES | AGGREGATES | WINDOW_FUNCTIONS
NOT_PURE = {
    **dict.fromkeys(
        words("""
            ago current_date current_time current_timestamp current_localtime
            current_localtimestamp get_current_time get_current_timestamp localtime
            localtimestamp now today transaction_timestamp
        """),
        (", which reads the clock,", "write a constant, as in DATE '2024-01-31', or a parameter"),
    ),
    **dict.fromkeys(
        words("gen_random_uuid random rand reservoir_quantile setseed uuid uuidv4 uuidv7"),
        (", which draws random numbers,", "leave it out"),
    ),
    **dict.fromkeys(
        words("array_resize generate_series list_reduce list_resize range reduce repeat"),
        (", whose result can be arbitrarily long,", "use BAR(n, 0, 100, 20) for bars of a chart"),
    ),
    **dict.fromkeys(
        words("""
            current_catalog current_database current_role current_schema current_setting
            current_user getenv getvariable session_user user
        """),
        (", which reads settings,", "write a constant, or a parameter such as $name"),
    ),
}
"""Why well-known functions are left out, and what to write instead; some are called by names."""

ZONES = (
    ", which converts times between zones,",
    "leave it out: times are local times of the `time_zone` of the `source` in the table's schema",
)
LEFT_OUT = {
    **NOT_PURE,
    "age": (", which reads the clock or returns an interval,", "write date_diff('year', a, b)"),
    "timezone": ZONES,
}

CONSTANT_LENGTHS = words(SCALARS["texts with constant lengths"])
LONGEST_PAD = 9999
"""Maximum number of characters to which a text is padded."""


def function_name(node: exp.Expr) -> str:
    """Return the name by which DuckDB calls a function, in lower case; "" for other syntax."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return str(node.this).lower()
    found = re.match(r"(\w+)(\(|$)", node.sql("duckdb"))
    return "" if found is None else found[1].lower()


def written_name(node: exp.Expr) -> str:
    """Return the name of a function or a clause as a message shows it."""
    name = function_name(node) if isinstance(node, exp.Func) else ""
    return ("string_agg" if name == "listagg" else name or str(node.key)).upper()
