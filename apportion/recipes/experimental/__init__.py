"""Methods for which no training rule was published: rebuilt from an idea, named for what they do."""
