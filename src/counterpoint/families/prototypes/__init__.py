"""Family: nearest prototypes and Gaussians; cells, metrics of their own, quadratic conditions."""
