-- Who said what is answered by the index alone: a history of thousands of messages looks each of them up, and the row behind it is
-- as long as the message.
CREATE INDEX ix_events_message_4 ON run_events (thread_id, message_id, seq, run_id, event_type, user_id)
  WHERE message_id IS NOT NULL;
DROP INDEX ix_events_message;
