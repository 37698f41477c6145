"""For all tests."""

from hypothesis import HealthCheck, settings

# A busy machine makes any example slow; how long one takes is no property of the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
