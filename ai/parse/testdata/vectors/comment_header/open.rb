#!/usr/bin/ruby
# -*- coding: utf-8 -*-
# ---
# version: 1.0.0
# a: [
puts 1
