"""Speech tokens to mel: the flow-matching transformer, one-shot and streaming."""
