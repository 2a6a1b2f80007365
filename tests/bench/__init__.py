"""What the durable operators cost, measured against Apache's, in one run on one machine."""
