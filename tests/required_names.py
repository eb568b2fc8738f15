"""The names that a port from JAX needs first, by module: those that its users use most, and what is expected next."""

REQUIRED = {
    "tinyfn": """
        grad value_and_grad jit vmap jvp vjp linearize jacfwd jacrev hessian checkpoint remat custom_jvp custom_vjp
        stop_gradient eval_shape ShapeDtypeStruct make_graph disable_jit no_tracing log_compiles debug_nans debug_infs
        pure_callback io_callback linear_transpose custom_gradient closure_convert no_execution ensure_compile_time_eval
        clear_caches named_scope named_call block_until_ready export checkpoint_policies custom_batching tree_util errors dtypes
        Array TracerBoolConversionError TracerArrayConversionError TracerIntegerConversionError
        ConcretizationError NonConcreteBooleanIndexError UnexpectedTracerError
        debug tree numpy lax nn random linalg fft ops scipy""",
    "tinyfn.ad_checkpoint": "checkpoint_name print_saved_residuals",
    "tinyfn.checkpoint_policies": """
        everything_saveable nothing_saveable dots_saveable dots_with_no_batch_dims_saveable save_only_these_names
        save_any_names_but_these save_from_both_policies""",
    "tinyfn.errors": """
        TracerBoolConversionError TracerArrayConversionError TracerIntegerConversionError ConcretizationTypeError
        NonConcreteBooleanIndexError UnexpectedTracerError KeyReuseError""",
    "tinyfn.export": "export deserialize",
    "tinyfn.debug": "print callback breakpoint",
    "tinyfn.checks": "check CheckError",
    "tinyfn.tree": """
        map leaves flatten unflatten structure reduce all transpose broadcast map_with_path leaves_with_path flatten_with_path
        static register_pytree_node register_pytree_node_class register_pytree_with_keys register_pytree_with_keys_class
        register_dataclass register_static Partial keystr DictKey SequenceKey GetAttrKey FlattenedIndexKey""",
    "tinyfn.random": """
        key PRNGKey split fold_in key_data wrap_key_data clone bits KeyReuseError
        ball bernoulli beta binomial categorical cauchy chisquare choice dirichlet double_sided_maxwell exponential f gamma
        generalized_normal geometric gumbel laplace loggamma logistic lognormal maxwell multinomial multivariate_normal normal
        orthogonal pareto permutation poisson rademacher randint rayleigh t triangular truncated_normal uniform wald
        weibull_min""",
    "tinyfn.numpy": """
        array ones arange zeros sum sin asarray dot mean where allclose zeros_like cos sqrt abs exp maximum all log ones_like
        stack
        max concatenate reshape tile einsum expand_dims linspace matmul full tanh pad square broadcast_to isnan array_equal
        argmax
        clip moveaxis issubdtype result_type real minimum split isfinite vdot transpose eye equal empty logical_and linalg
        finfo any
        sign imag round take outer tril squeeze vstack array_split roll identity conj tensordot iscomplexobj flip repeat
        promote_types power isinf prod negative copy take_along_axis not_equal min diag logical_or astype var multiply add
        logaddexp
        invert full_like cumsum concat rot90 piecewise iinfo conjugate vectorize nextafter logical_not log1p isclose floor
        count_nonzero convolve arctanh triu swapaxes select save polyval nansum nanargmin nanargmax nan_to_num mod hypot
        greater_equal expm1 broadcast_shapes broadcast_arrays
        std sort argsort argmin ravel hstack meshgrid logspace log2 log10 less less_equal greater inner empty_like cumprod cbrt
        bincount average atleast_1d atleast_2d atleast_3d unravel_index ravel_multi_index nonzero argwhere flatnonzero unique
        searchsorted digitize histogram interp percentile quantile median cross kron trace diagonal triu_indices tril_indices
        diff
        ediff1d nanmean nanmax nanmin nanstd ceil trunc rint floor_divide remainder divmod fmod sinh cosh tan arcsin arccos
        arctan
        arctan2 deg2rad exp2 reciprocal gcd lcm bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift isin insert
        delete append apply_along_axis column_stack dstack gradient trapezoid cov corrcoef lexsort partition top_k
        matrix_transpose
        vecdot matvec isscalar ndim shape size subtract divide pi e inf nan newaxis savez load
        compress from_dlpack can_cast isdtype
        bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128""",
    "tinyfn.lax": """
        scan cond switch while_loop fori_loop map associative_scan dot_general select broadcast_in_dim broadcasted_iota
        conv_general_dilated stop_gradient rsqrt dynamic_slice bitcast_convert_type convert_element_type dynamic_update_slice
        dynamic_update_slice_in_dim top_k conv_transpose sort cumsum erf lgamma digamma igamma clamp gather scatter
        reduce_window psum pmean pmax pmin all_gather psum_scatter all_to_all ppermute pshuffle pswapaxes axis_index
        axis_size scatter_add scatter_max scatter_min scatter_mul cummax cummin cumprod rng_bit_generator optimization_barrier
        custom_root custom_linear_solve""",
    "tinyfn.nn": """
        relu softmax one_hot sigmoid log_softmax gelu silu softplus tanh log_sigmoid dot_product_attention elu celu selu glu
        leaky_relu hard_tanh hard_sigmoid hard_silu hard_swish mish squareplus logsumexp standardize log1mexp initializers""",
    "tinyfn.nn.initializers": """
        lecun_normal lecun_uniform he_normal he_uniform glorot_normal glorot_uniform variance_scaling orthogonal truncated_normal
        constant zeros ones normal uniform""",
    "tinyfn.linalg": """
        cholesky solve inv det slogdet eigh qr svd norm pinv lstsq matrix_power matrix_rank matrix_norm""",
    "tinyfn.lax.linalg": "triangular_solve cholesky lu",
    "tinyfn.scipy.linalg": "expm solve_triangular cho_factor cho_solve lu",
    "tinyfn.fft": """
        fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftfreq rfftfreq fftshift ifftshift""",
    "tinyfn.scipy.special": """
        erf erfinv gammaln digamma gammainc betainc logsumexp logit ndtr i0 i0e i1 i1e polygamma xlogy expit
        bessel_jn expn fresnel hyp1f1 hyp2f1 owens_t sph_harm_y wofz""",
    "tinyfn.ops": "segment_sum segment_prod segment_max segment_min",
}
# Methods and attributes of arrays.
OF_ARRAYS = """
    at astype reshape item T mT sum mean max min prod any all argmax argmin std var cumsum dot ravel flatten squeeze transpose
    swapaxes repeat take sort argsort round clip conj real imag tolist ndim shape size dtype copy trace diagonal
    block_until_ready device __array__ __dlpack__ __getitem__ __array_namespace__"""
OF_AT = "set add subtract multiply divide power min max apply get"
