"""A script that calls all methods: `tests/accessor/test_typed.py` checks it with mypy --strict.

Lines that end in a comment "error: code" are mistakes that mypy must report.
"""

from typing import assert_type

import pandas as pd

import dprelease
from dprelease.accessor.frame import DpAccessor

session = dprelease.Session("people.yaml", epsilon=2.0, delta="1e-8")
df = pd.DataFrame({"state": ["VT"], "income": [3.5]})
df.dp.use(session, row_wise=True)
assert_type(df.dp, DpAccessor)
assert_type(dprelease.dp(df), DpAccessor)
assert_type(df.dp.session.remaining.epsilon.numerator, int)
assert_type(df.shape, tuple[int, int])

assert_type(df.dp.count(by=["state", "sex"], epsilon=0.1), pd.DataFrame)
assert_type(df.dp.count_distinct("person", by="state", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.sum("income", epsilon="0.1", mechanism="laplace"), pd.DataFrame)
assert_type(df.dp.mean("income", rho=0.1, delta="1e-9"), pd.DataFrame)
assert_type(df.dp.sum("income", weight="age", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.mean("income", weight="age", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.weighted_count("age", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.cov(["income", "age"], epsilon=0.1), pd.DataFrame)
assert_type(df.dp.corr(["income", "age"], by="state", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.design_error("w", ["w1", "w2"], "1/2", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.regression("income", ["age"], epsilon=0.1), pd.DataFrame)
assert_type(df.dp.effective_size("age", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.variance("income", epsilon=0.1, confidence=0.99), pd.DataFrame)
assert_type(df.dp.stddev("income", epsilon=0.1, private_keys=True), pd.DataFrame)
assert_type(df.dp.size(by="state", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.nunique("person", by="state", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.var("income", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.std("income", by="state", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.agg({"income": ["mean", "std"]}, by="state", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.agg(pay=("income", "mean"), epsilon=0.1), pd.DataFrame)
assert_type(df.dp.median("income", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.quantile("income", [0.1, 0.9], epsilon=0.1), pd.DataFrame)
assert_type(df.dp.min("age", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.max("age", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.mode("state", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.histogram("age", bins=[0, 18, 65], closed="right", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.value_counts("state", sort=False, epsilon=0.1), pd.DataFrame)
assert_type(df.dp.crosstab("state", "sex", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.unique(["state", "sex"]), pd.DataFrame)
assert_type(df.dp.unique("job", private_keys=True, epsilon=0.1, delta=1e-6), pd.DataFrame)
assert_type(df.dp.tables(cube=["state", "sex"], epsilon=0.1)["state"], pd.DataFrame)
assert_type(df.dp.describe(["age", "income"], epsilon=0.1), pd.DataFrame)
assert_type(df.dp.sql("SELECT COUNT(*) FROM people", epsilon=0.1), pd.DataFrame)
assert_type(df.dp.explain("mean", "income", by="state", epsilon=0.1), pd.DataFrame)
adults = df.dp.where("age >= 18").derive(old={"cut": "age", "edges": [0, 65, 116]})
assert_type(adults.where("age < 99").count(epsilon=0.1), pd.DataFrame)

groups = df.dp.groupby(["state", "sex"])
assert_type(groups.size(epsilon=0.1), pd.Series)
assert_type(groups.count("income", epsilon=0.1), pd.DataFrame)
assert_type(groups.count_distinct("state", epsilon=0.1), pd.DataFrame)
assert_type(groups.nunique("state", epsilon=0.1), pd.DataFrame)
assert_type(groups.sum(["income", "age"], epsilon=0.1), pd.DataFrame)
assert_type(groups.mean("income", epsilon=0.1), pd.DataFrame)
assert_type(groups.mean("income", weight="age", epsilon=0.1), pd.DataFrame)
assert_type(groups.weighted_count("age", epsilon=0.1), pd.DataFrame)
assert_type(groups.cov(["income", "age"], epsilon=0.1), pd.DataFrame)
assert_type(groups[["income", "age"]].corr(epsilon=0.1), pd.DataFrame)
assert_type(groups.effective_size("age", epsilon=0.1), pd.DataFrame)
assert_type(groups.variance("income", epsilon=0.1), pd.DataFrame)
assert_type(groups.stddev("income", epsilon=0.1), pd.DataFrame)
assert_type(groups.median("income", epsilon=0.1), pd.DataFrame)
assert_type(groups.quantile("income", [0.1, 0.9], epsilon=0.1), pd.DataFrame)
assert_type(groups.min("income", epsilon=0.1), pd.DataFrame)
assert_type(groups.max("income", epsilon=0.1), pd.DataFrame)
assert_type(groups.mode("state", epsilon=0.1), pd.DataFrame)
assert_type(groups.histogram("age", [0, 18, 65], epsilon=0.1), pd.DataFrame)
assert_type(groups.value_counts("state", epsilon=0.1), pd.DataFrame)
assert_type(groups.describe(["age", "income"], epsilon=0.1), pd.DataFrame)
assert_type(groups.agg({"income": ["mean", "std"]}, epsilon=0.1), pd.DataFrame)
assert_type(groups.agg(pay=("income", "mean"), epsilon=0.1), pd.DataFrame)
assert_type(groups[["income", "age"]].mean(epsilon=0.1), pd.DataFrame)
assert_type(groups["income"].agg(["mean", "std"], epsilon=0.1), pd.DataFrame)
pay: "pd.Series[float]" = groups["income"].mean(epsilon=0.1)
pay = groups["income"].agg("mean", epsilon=0.1)
pay = groups["income"].size(epsilon=0.1)
pay = groups["income"].quantile(0.9, epsilon=0.1)
flat = df.dp.groupby("state", as_index=False)
assert_type(flat["income"].std(epsilon=0.1), pd.DataFrame)
assert_type(flat["income"].agg("mean", epsilon=0.1), pd.DataFrame)

df.dp.count(mechansim="laplace", epsilon=0.1)  # error: call-arg
df.dp.count(epsilon=[1])  # error: arg-type
df.dp.agg(pay=("income", "mean"), epsilon=[1])  # error: arg-type
df.dp.mean(epsilon=0.1)  # error: call-arg
df.dp.skew("income", epsilon=0.1)  # error: attr-defined
df.dp.crosstab("state", "sex", by="job", epsilon=0.1)  # error: call-arg
df.dp.explain("skew", "income", epsilon=0.1)  # error: arg-type
df.dp.groupby("state")["income"].mean(by="sex", epsilon=0.1)  # error: call-arg
df.dp.mean("income", by=3, epsilon=0.1)  # error: arg-type
