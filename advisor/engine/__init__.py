"""A Setting becomes a serving Endpoint, and its end leaves nothing behind."""

from advisor.engine.doctor import Diagnosis, Gpu, examine
from advisor.engine.endpoint import Endpoint
from advisor.engine.failures import classify
from advisor.engine.metrics import FactsWatch
from advisor.engine.vllm import VllmEngine

__all__ = ["Diagnosis", "Endpoint", "FactsWatch", "Gpu", "VllmEngine", "classify", "examine"]
