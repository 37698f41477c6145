"""vLLM's V1 scheduler as a step loop with a roofline cost model; pure and deterministic."""

from advisor.sim.config import EngineConfig, resolve
from advisor.sim.flagvalues import modelled
from advisor.sim.hardware import Hardware, hardware, hardware_names
from advisor.sim.models import ModelShape, model, model_names
from advisor.sim.simulate import SimRun, simulate
from advisor.sim.timeline import Timeline

__all__ = [
    "EngineConfig",
    "Hardware",
    "ModelShape",
    "SimRun",
    "Timeline",
    "hardware",
    "hardware_names",
    "model",
    "model_names",
    "modelled",
    "resolve",
    "simulate",
]
