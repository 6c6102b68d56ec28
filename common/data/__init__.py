"""Plain data: specs, parcels, weights, versions, seeds and names."""
