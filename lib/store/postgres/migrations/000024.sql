-- What runs have taken, by day, user, agent and model. '' stands for none. It stays when the runs are gone.
CREATE TABLE usage_sums (
  day           text COLLATE "C" NOT NULL,
  user_id       text COLLATE "C" NOT NULL,
  agent         text COLLATE "C" NOT NULL,
  model         text COLLATE "C" NOT NULL,
  runs          bigint NOT NULL,
  input_tokens  bigint NOT NULL,
  output_tokens bigint NOT NULL,
  total_tokens  bigint NOT NULL,
  money_micros  bigint NOT NULL,
  PRIMARY KEY (day, user_id, agent, model)
);
CREATE INDEX ix_usage_user ON usage_sums (user_id, day);
INSERT INTO usage_sums
  SELECT to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), coalesce(user_id, ''), coalesce(assistant_id, ''),
    coalesce(model_name, ''), count(*), sum(total_input_tokens), sum(total_output_tokens), sum(total_tokens), 0
  FROM runs WHERE status NOT IN ('pending', 'running') GROUP BY 1, 2, 3, 4;
