#!/bin/bash
echo "kOps writes this script when it updates the cluster"
