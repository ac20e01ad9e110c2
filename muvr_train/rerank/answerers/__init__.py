"""Who answers questions: servers, local models, files of answers, references."""
