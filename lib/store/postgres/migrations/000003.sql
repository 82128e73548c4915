-- What a writer whose lease was taken had committed last: one that is in doubt about its last batch at that moment asks here. Rows of
-- a day ago are removed by whoever takes the next lease.
CREATE TABLE former_writers (
  writer_id varchar(64) COLLATE "C" PRIMARY KEY,
  batch     bigint NOT NULL,
  ended_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
