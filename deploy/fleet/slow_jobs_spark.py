# SPDX-License-Identifier: Apache-2.0
"""The question of slow_jobs.sql for Spark."""
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.appName("capo").config("spark.sql.shuffle.partitions", 8).getOrCreate()
call = spark.read.csv("samples", header=True).where("clock = 'GPU events'").withColumn("us", F.col("us").cast("double"))
call = call.fillna("", ["gpu", "layout"])  # a null is not equal to a null in a join
key = ["collective", "bytes", "ranks", "nccl", "gpu", "layout"]
job = call.groupBy("source", *key).agg(F.count("*").alias("calls"), F.expr("percentile(us, 0.5)").alias("p50_us"))
fleet = call.groupBy(*key).agg(F.expr("percentile(us, 0.5)").alias("fleet_us"))
job.join(fleet, key).where("p50_us > 1.5 * fleet_us").orderBy(F.desc("p50_us")).coalesce(1).write.mode("overwrite").csv("slow", header=True)
