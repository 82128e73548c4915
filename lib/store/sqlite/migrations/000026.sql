-- Deleted words leave the index when its parts are merged (connection.ts). FTS5's own secure-delete would take them out at once, but writes
-- a form of the index that SQLite before 3.42 refuses, also a distribution's `sqlite3` that reads any other table.
INSERT INTO search_words (search_words, rank) VALUES ('secure-delete', 0);
INSERT INTO search_words (search_words) VALUES ('rebuild');
-- How many texts were removed, and how many of those had been when all parts were last merged.
CREATE TABLE search_removals (
  removed INTEGER NOT NULL,
  merged  INTEGER NOT NULL
);
INSERT INTO search_removals (removed, merged) VALUES (0, 0);
DROP TRIGGER search_texts_removed;
CREATE TRIGGER search_texts_removed AFTER DELETE ON search_texts BEGIN
  INSERT INTO search_words (search_words, rowid, words) VALUES ('delete', old.id, old.words);
  UPDATE search_removals SET removed = removed + 1;
END;
