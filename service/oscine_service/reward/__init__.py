"""How well speech says a text, as one number: what a speech language model can be tuned against (by GRPO, say)."""
