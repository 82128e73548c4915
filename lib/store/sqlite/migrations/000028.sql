-- A quota of an account's own, and what has been given away of quotas, by user, measure and day or month.
ALTER TABLE users ADD COLUMN quota_json TEXT;
CREATE TABLE quota_counts (
  user_id TEXT NOT NULL,
  measure TEXT NOT NULL,
  period  TEXT NOT NULL,
  taken   INTEGER NOT NULL,
  PRIMARY KEY (user_id, measure, period)
) WITHOUT ROWID;
