-- breaking: an older program takes any newer schema for one that it must not write.
-- From here on a step says which programs may read and write after it: those that know `min_reader` and `min_writer`, or a newer
-- version. NULL: its own. `backfill`: what is left to be filled, null when nothing is.
ALTER TABLE migrations
  ADD COLUMN min_reader integer,
  ADD COLUMN min_writer integer,
  ADD COLUMN backfill text,
  ADD COLUMN contracted_at timestamptz;
-- The newest schema that a process knows. NULL: from before it was said.
ALTER TABLE writers ADD COLUMN schema integer;
