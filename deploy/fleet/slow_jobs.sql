-- SPDX-License-Identifier: Apache-2.0
-- The jobs whose median time of a collective and size is 1.5 times that of all jobs like them: same size, ranks, layout, GPU and NCCL.
-- Reads samples/*.csv, one file for each job. docs/scale.md shows how to run it.
CREATE OR REPLACE TABLE call AS
SELECT source AS job, nccl, gpu, layout, ranks, collective, bytes, algo, proto, us,
       bytes / us / 1e3 * CASE collective WHEN 'AllReduce' THEN 2.0 * (ranks - 1) / ranks
                                          WHEN 'AllGather' THEN (ranks - 1.0) / ranks
                                          WHEN 'ReduceScatter' THEN (ranks - 1.0) / ranks ELSE 1 END AS busbw_gbs
FROM read_csv('samples/*.csv', header = true, union_by_name = true, nullstr = '',
              types = {'nccl': 'VARCHAR', 'gpu': 'VARCHAR', 'layout': 'VARCHAR', 'forced_algo': 'VARCHAR', 'forced_proto': 'VARCHAR',
                       'type': 'VARCHAR', 'op': 'VARCHAR', 'place': 'VARCHAR', 'algo': 'VARCHAR', 'proto': 'VARCHAR',
                       'clock': 'VARCHAR', 'source': 'VARCHAR'})
WHERE clock = 'GPU events';

CREATE OR REPLACE TABLE slow AS
SELECT job, collective, bytes, ranks, layout, gpu, nccl, count(*) AS calls, median(us) AS p50_us, median(busbw_gbs) AS p50_gbs, any_value(fleet) AS fleet_us
FROM (SELECT *, median(us) OVER (PARTITION BY collective, bytes, ranks, nccl, gpu, layout) AS fleet FROM call)
GROUP BY job, collective, bytes, ranks, layout, gpu, nccl
HAVING median(us) > 1.5 * any_value(fleet)
ORDER BY p50_us / fleet_us DESC;
