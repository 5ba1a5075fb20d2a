"""Trained models: prediction, files, checkpoints, calibration and metrics."""
