"""vllm-sim: a stand-in server driven by the simulator."""
