"""What several engines share about tiers below the GPU's cache: how they are asked for, and LMCache."""
