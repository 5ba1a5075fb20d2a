"""scikit-learn's tests of k-means, mixtures and multidimensional scaling: which of them fail, and why."""

from sklearn_suite import Suite

from bmrm import MDS, GaussianMixture, KMeans

PRIVATE = "uses private attributes or functions of scikit-learn's class"
WORDS = "expects scikit-learn's words of a message"
OTHER = "is about a class or a function that this package does not replace"

SUITE = Suite(
    modules=(
        "sklearn.cluster.tests.test_k_means",
        "sklearn.mixture.tests.test_gaussian_mixture",
        "sklearn.manifold.tests.test_mds",
    ),
    replaced={
        "sklearn.cluster.KMeans": KMeans,
        "sklearn.mixture.GaussianMixture": GaussianMixture,
        "sklearn.manifold._mds.MDS": MDS,
    },
    apart={
        "test_minibatch*": OTHER,
        "test_*[*MiniBatchKMeans*]": OTHER,
        "test_kmeans_plusplus_*": OTHER,
        "test_k_means_function": OTHER,
        "test_euclidean_distance": PRIVATE,
        "test_inertia": PRIVATE,
        "test_is_same_clustering": PRIVATE,
        "test_relocate_empty_clusters": PRIVATE,
    },
    exceptions={
        # k-means
        "test_kmeans_results": "n_iter_ is the number of moves of the centres; the last pass moves none",
        "test_kmeans_relocated_clusters": "n_iter_ is the number of moves of the centres",
        "test_relocating_with_duplicates": WORDS,
        "test_kmeans_init_auto_with_initial_centroids[KMeans*]": PRIVATE,
        "test_n_init_auto[KMeans-10]": PRIVATE,
        "test_sample_weight_init": PRIVATE,
        "test_sample_weight_zero": PRIVATE,
        "test_kmeans_verbose": "verbose=1 shows progress on a terminal, and nothing on other outputs",
        "test_warning_n_init_precomputed_centers[KMeans]": "given centres have one start, as documented",
        "test_float_precision[*-KMeans-*]": "results are float64, also of rows in float32",
        "test_kmeans_warns_less_centers_than_unique_points": WORDS,
        "test_warning_elkan_1_cluster": "algorithm changes nothing, so that there is nothing to warn of",
        "test_wrong_params[*n_samples*-KMeans]": WORDS,
        "test_wrong_params[*The shape of the initial*-KMeans]": WORDS,
        # mixtures
        "test_gaussian_mixture_attributes": "there is no init_params='random'",
        "test_init_means_not_duplicated[*-random]": "there is no init_params='random'",
        "test_means_for_all_inits[*-random]": "there is no init_params='random'",
        "test_check_weights": WORDS,
        "test_check_means": WORDS,
        "test_check_precisions": WORDS,
        "test_gaussian_mixture_predict_predict_proba": WORDS,
        "test_score[float64]": WORDS,
        "test_score_samples": WORDS,
        "test_sample": WORDS,
        "test_regularisation": WORDS,
        "test_gaussian_mixture_fit_convergence_warning": "status_ says that EM has not converged; no warning",
        "test_gaussian_mixture_setting_best_params": "a singular covariance (reg_covar=0) is an error",
        "test_gaussian_mixture_precisions_init": PRIVATE,
        "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters": PRIVATE,
        # multidimensional scaling
        "test_normalized_stress_auto": PRIVATE,
        "test_returned_stress": "compares two stresses of a perfect map, which are rounding alone",
        "test_convergence_does_not_depend_on_scale": "starts at the perfect map, where rounding decides",
        "test_future_warning_init_and_metric": "dissimilarity and a metric of True or False are refused; an "
        "error names metric and metric_mds",
    },
)
