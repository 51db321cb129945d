-- SPDX-License-Identifier: Apache-2.0
-- The choice with the shortest median time, for each allocation, collective and size, compared with NCCL's own choice.
-- Reads samples/*.csv, which capo export writes. docs/scale.md shows how to run it.
CREATE OR REPLACE TABLE cell AS
SELECT gpu, nccl, layout, ranks, collective, bytes,
       coalesce(forced_algo, '') AS algo, coalesce(forced_proto, '') AS proto, forced_channels AS channels,
       count(*) AS n, median(us) AS us, 1.4826 * mad(us) AS spread
FROM read_csv('samples/*.csv', header = true, union_by_name = true, nullstr = '',
              types = {'forced_algo': 'VARCHAR', 'forced_proto': 'VARCHAR', 'layout': 'VARCHAR', 'nccl': 'VARCHAR',
                       'algo': 'VARCHAR', 'proto': 'VARCHAR', 'gpu': 'VARCHAR', 'type': 'VARCHAR', 'op': 'VARCHAR',
                       'place': 'VARCHAR', 'clock': 'VARCHAR', 'source': 'VARCHAR'})
GROUP BY ALL;

CREATE OR REPLACE TABLE answer AS
SELECT best.gpu, best.nccl, best.layout, best.ranks, best.collective, best.bytes,
       best.algo, best.proto, best.channels, best.us, own.us AS nccl_us,
       round(1 - best.us / own.us, 4) AS gain,
       1 - best.us / own.us > 3 * 1.2533 * sqrt((best.spread / best.us) ** 2 / best.n + (own.spread / own.us) ** 2 / own.n) AS beyond_noise
FROM (SELECT * FROM cell WHERE algo <> '' OR proto <> ''
      QUALIFY row_number() OVER (PARTITION BY gpu, nccl, layout, ranks, collective, bytes ORDER BY us, algo, proto, channels) = 1) AS best
JOIN (SELECT * FROM cell WHERE algo = '' AND proto = '' AND channels = 0) AS own
  ON best.gpu IS NOT DISTINCT FROM own.gpu AND best.nccl IS NOT DISTINCT FROM own.nccl
 AND best.layout IS NOT DISTINCT FROM own.layout AND best.ranks = own.ranks
 AND best.collective = own.collective AND best.bytes = own.bytes
ORDER BY ALL;
