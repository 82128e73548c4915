-- What runs have taken, by day, user, agent and model. '' stands for none. It stays when the runs are gone.
CREATE TABLE usage_sums (
  day           TEXT NOT NULL,
  user_id       TEXT NOT NULL,
  agent         TEXT NOT NULL,
  model         TEXT NOT NULL,
  runs          INTEGER NOT NULL,
  input_tokens  INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  total_tokens  INTEGER NOT NULL,
  money_micros  INTEGER NOT NULL,
  PRIMARY KEY (day, user_id, agent, model)
) WITHOUT ROWID;
CREATE INDEX ix_usage_user ON usage_sums (user_id, day);
INSERT INTO usage_sums
  SELECT substr(updated_at, 1, 10), coalesce(user_id, ''), coalesce(assistant_id, ''), coalesce(model_name, ''),
    count(*), sum(total_input_tokens), sum(total_output_tokens), sum(total_tokens), 0
  FROM runs WHERE status NOT IN ('pending', 'running') GROUP BY 1, 2, 3, 4;
