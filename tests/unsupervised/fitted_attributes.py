"""Attributes of fitted estimators that programs on ranks compare."""

CLUSTERS = ("cluster_centers_", "labels_", "inertia_", "cluster_weights_", "history_", "n_iter_")
MIXTURE = ("weights_", "means_", "covariances_", "lower_bounds_", "log_likelihood_")
COMPONENTS = ("components_", "singular_values_", "explained_variance_ratio_", "mean_")
