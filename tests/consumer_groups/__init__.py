"""Groups of the consumer protocol of KIP-848."""
