-- The number of the last batch that each writer thread has committed: a thread that dies between its commit and its answer has
-- written the batch, and who starts the next one must be able to tell.
CREATE TABLE writers (
  writer_id  TEXT PRIMARY KEY,
  batch      INTEGER NOT NULL,
  written_at TEXT NOT NULL
);
