"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# No test is about time: a slow machine must not fail one.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")
