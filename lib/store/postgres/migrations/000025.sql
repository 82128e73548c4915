-- A quota of an account's own, and what has been given away of quotas, by user, measure and day or month.
ALTER TABLE users ADD COLUMN quota_json text;
CREATE TABLE quota_counts (
  user_id text COLLATE "C" NOT NULL,
  measure text COLLATE "C" NOT NULL,
  period  text COLLATE "C" NOT NULL,
  taken   bigint NOT NULL,
  PRIMARY KEY (user_id, measure, period)
);
