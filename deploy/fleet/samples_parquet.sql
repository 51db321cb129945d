-- SPDX-License-Identifier: Apache-2.0
-- Writes samples.parquet from samples/*.csv.
COPY (SELECT * FROM read_csv('samples/*.csv', header = true, union_by_name = true, nullstr = '',
                             types = {'nccl': 'VARCHAR', 'gpu': 'VARCHAR', 'layout': 'VARCHAR', 'forced_algo': 'VARCHAR',
                                      'forced_proto': 'VARCHAR', 'type': 'VARCHAR', 'op': 'VARCHAR', 'place': 'VARCHAR',
                                      'algo': 'VARCHAR', 'proto': 'VARCHAR', 'clock': 'VARCHAR', 'source': 'VARCHAR'}))
TO 'samples.parquet' (FORMAT parquet, COMPRESSION zstd);
