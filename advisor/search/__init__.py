"""The Space of settings, its rules, and what to try next; the only room that knows Optuna."""
