"""vLLM's V1 scheduler as a step loop with a roofline cost model; pure and deterministic."""
