"""Matrix products: which contractions are some, how they are cut up and packed, and their loops."""
