"""The protobuf representation of objects, as clients in Go send and accept it."""
