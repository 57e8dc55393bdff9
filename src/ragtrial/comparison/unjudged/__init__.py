"""What unjudged hits could change about a comparison."""
