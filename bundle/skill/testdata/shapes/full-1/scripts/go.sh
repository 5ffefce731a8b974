#!/bin/bash
curl -s https://full.example/x > /tmp/x
