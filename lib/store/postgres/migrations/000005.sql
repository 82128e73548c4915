-- What the processes on one database must agree upon: each tells the others when it comes.
ALTER TABLE writers ADD COLUMN identity jsonb;
