"""Where a setting is measured: real servers or the simulator, behind one seam."""
