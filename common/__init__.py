"""Parts that every role shares: data, protocol, network and process manners."""
