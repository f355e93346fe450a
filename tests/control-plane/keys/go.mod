module control-plane/keys

go 1.26.0
