# SPDX-License-Identifier: Apache-2.0
"""The question of best_choice.sql for Spark. No test runs it."""
from pyspark.sql import SparkSession, Window, functions as F

spark = SparkSession.builder.appName("capo").getOrCreate()
samples = spark.read.csv("samples/*.csv", header=True, inferSchema=True).fillna("", ["forced_algo", "forced_proto"])
key = ["gpu", "nccl", "layout", "ranks", "collective", "bytes"]
cell = samples.groupBy(*key, "forced_algo", "forced_proto", "forced_channels").agg(
    F.count("*").alias("n"), F.expr("percentile_approx(us, 0.5, 10000)").alias("us"))
own = cell.where("forced_algo = '' and forced_proto = '' and forced_channels = 0").select(*key, F.col("us").alias("nccl_us"))
rank = F.row_number().over(Window.partitionBy(*key).orderBy("us", "forced_algo", "forced_proto", "forced_channels"))
best = cell.where("forced_algo <> '' or forced_proto <> ''").withColumn("rank", rank).where("rank = 1")
answer = best.join(own, key).withColumn("gain", 1 - F.col("us") / F.col("nccl_us"))
answer.where("gain >= 0.01").orderBy(*key).write.csv("answer", header=True)
